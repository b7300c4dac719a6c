"""The live view: the pages of a report, served on this machine and written anew while runs are in progress."""
