"""Real silos: organisations that train one model on their own rows, which never leave them.

A server runs the ordinary round loop and asks silos by letters. There is no network here: a `Post` carries letters.
"""
