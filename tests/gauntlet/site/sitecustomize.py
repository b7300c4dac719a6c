"""Python imports this module when it starts, if its folder is on the path."""

from file_trap import install

install()
