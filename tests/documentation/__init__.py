"""The documentation as a program: every block of every page is executed, planned, or listed with a reason.

`blocks` reads pages, `console` reads commands, `session` executes a page, `exceptions` lists what is not executed as it
stands, and `expected` has what must be true after a page was executed.
"""
