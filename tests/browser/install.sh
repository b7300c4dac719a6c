#!/bin/sh
# Bring what the tests of pages need: Debian's Chromium, and axe-core, which looks for barriers. Where one cannot be had,
# say so and go on: its tests are then skipped. Everything has a time limit.
#   sh tests/browser/install.sh FOLDER    axe-core goes into FOLDER
folder=$1
version=4.14.0
digest=2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af

limited() { # SECONDS COMMAND...
	if command -v timeout >/dev/null; then timeout "$@"; else shift && "$@"; fi
}

apt() {
	DEBIAN_FRONTEND=noninteractive limited 300 apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=20 \
		-o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=60 "$@" >/dev/null 2>&1
}

install_chromium() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
	echo "installing chromium for the tests of pages ..."
	apt install --no-install-recommends -y chromium fonts-dejavu-core ||
		{ apt update && apt install --no-install-recommends -y chromium fonts-dejavu-core; }
}

install_axe() {
	command -v npm >/dev/null || return 1
	mkdir -p "$folder" && cd "$folder" || return 1
	limited 90 npm pack "axe-core@$version" --silent --fetch-retries=0 --fetch-timeout=30000 >/dev/null 2>&1 || return 1
	echo "$digest  axe-core-$version.tgz" | sha256sum --check --status || return 1
	tar -xzf "axe-core-$version.tgz" package/axe.min.js && mv package/axe.min.js . && rm -r package
}

command -v chromium >/dev/null || command -v chromium-browser >/dev/null || install_chromium ||
	echo "chromium cannot be installed here, so tests of pages in a browser are skipped: install the package chromium, then 'make browser'."
[ -f "$folder/axe.min.js" ] || (install_axe) ||
	echo "axe-core $version cannot be downloaded here, so tests for barriers are skipped: install npm, then 'make browser'."
exit 0
