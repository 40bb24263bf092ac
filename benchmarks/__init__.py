"""How fast the library is, and what other libraries get out of the same samples."""
