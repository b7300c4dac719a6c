"""Charts as values, their text alternatives, and two ways to draw them: `page` for HTML, `files` for papers."""
