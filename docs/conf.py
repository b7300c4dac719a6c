"""How `make docs` builds the documentation site. Nothing is downloaded, and pages load nothing from elsewhere."""

import silobench

project = "silobench"
author = "The silobench developers"
copyright = "2026, the silobench developers"  # the name that Sphinx asks for
version = release = silobench.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
nitpicky = False  # type hints name torch and numpy, whose pages are elsewhere

myst_enable_extensions = ["colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4  # links to sections are those of a code host

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = "silobench"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0f5e9c", "color-brand-content": "#0f5e9c"},
    "dark_css_variables": {"color-brand-primary": "#6cb6f0", "color-brand-content": "#6cb6f0"},
}
