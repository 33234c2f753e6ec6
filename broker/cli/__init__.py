"""The command line: one file per noun, loaded when it is named. Importing this package costs nothing."""
