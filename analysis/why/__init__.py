"""Why each row of a study is as fast as it is, on the command line."""
