"""The command line: reads options, calls the library, draws what it reports. Nothing imports this package."""
