"""One module a command: options in, library calls, an answer for people or as JSON out."""
