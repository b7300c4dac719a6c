#!/bin/sh
# Flower needs older packages (typer, rich, packaging) than the rest: give it an environment of its own that borrows all others.
# Where it cannot be installed, say so and go on: tests of real silos are then skipped.
#   sh tests/silos/install.sh PYTHON FOLDER    the environment goes into FOLDER, and borrows the packages of PYTHON
python=$1
folder=$2
version=1.41.0

limited() { # SECONDS COMMAND...
	if command -v timeout >/dev/null; then timeout "$@"; else shift && "$@"; fi
}

install_flower() {
	"$python" -m venv "$folder" || return 1
	packages='import sysconfig; print(sysconfig.get_path("purelib"))'
	echo "import site; site.addsitedir('$("$python" -c "$packages")')" >"$("$folder/bin/python" -c "$packages")/borrowed.pth"
	limited 300 "$folder/bin/pip" install --quiet --disable-pip-version-check --no-compile "flwr==$version" >/dev/null 2>&1 || return 1
	"$folder/bin/python" -c 'import flwr, silobench'
}

install_flower ||
	echo "Flower $version cannot be installed here, so tests of real silos are skipped: see that pip finds it, then 'make flower'."
exit 0
