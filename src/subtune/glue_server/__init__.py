"""The GLUE server: the zip files that it takes, and the scores that it returns."""
