"""What programs say to the providers of their models, captured as it passes by: `docs/capture.md`."""
