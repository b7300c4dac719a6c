"""Charts of the report: values (`values`), their text alternatives, and two ways to draw them, for pages and for files."""
