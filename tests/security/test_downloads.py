"""Downloads: what comes over an open network is used only if its digest is known before it is read."""

from urllib.parse import urlsplit

from silobench.data.store.catalog import catalog

# Its authors publish no digest, and no address with https. It is an archive of pictures, which is read as such.
WITHOUT = {"chars74k"}


def test_open_addresses_have_published_digests() -> None:
    """Whoever sits between could change a file that comes by http; its digest is checked before anything parses it."""
    unchecked, count = set(), 0
    for entry in catalog().values():
        for download in [one for source in entry.sources if source.client == "home" for one in source.downloads]:
            if urlsplit(download.what).scheme != "https":
                count += 1
                if not download.sha256 and not all(entry.file(name).sums for name in entry.members(download)):
                    unchecked.add(entry.name)
    assert count > 0
    assert unchecked == WITHOUT
