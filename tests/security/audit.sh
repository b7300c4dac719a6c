#!/bin/sh
# Look up the installed packages in the database of known vulnerabilities: audit.sh PYTHON FOLDER
# The exit code is 0 only if every package was looked up and none has a known vulnerability.
set -eu
python=$1
folder=$2

if [ ! -x "$folder/bin/pip-audit" ]; then
    "$python" -m venv "$folder"  # of its own: it must not change the packages that it looks up
    "$folder/bin/pip" install --quiet --disable-pip-version-check pip-audit==2.10.1
fi
list=$(mktemp)
trap 'rm -f "$list"' EXIT
# The database has no local versions such as 2.13.0+cpu, and silobench itself is not in it.
"$python" -m pip list --disable-pip-version-check --format=freeze --exclude-editable | sed 's/+.*$//' >"$list"
echo "looking up $(wc -l <"$list") packages"
# Without --strict, packages that cannot be looked up are skipped, and it ends with "No known vulnerabilities found".
if "$folder/bin/pip-audit" --strict --no-deps --disable-pip --progress-spinner off --requirement "$list"; then
    echo "all of them were looked up"
else
    echo "the audit FAILED: a package has a known vulnerability, or could not be looked up (see above)" >&2
    exit 1
fi
