"""Store the public interface as it is now, in `public.txt`, and list its names in docs/api.md."""

from api import STORED, interface
from api.page import PAGE, renewed

if __name__ == "__main__":
    STORED.write_text("\n".join([*interface(), ""]), encoding="utf-8")
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"wrote {STORED} and {PAGE}")
