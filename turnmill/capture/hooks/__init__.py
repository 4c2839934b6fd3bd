"""Where the libraries that speak HTTP let us listen: a module for each library."""
