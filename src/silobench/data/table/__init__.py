"""Tables: raw columns, how they are read from files, and how they become features."""
