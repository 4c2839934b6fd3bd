"""Commands on files, most without a broker: `assemble`, `convert`, `hash`, `validate`, `publish`."""
