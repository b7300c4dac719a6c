"""The page of claims: findings of papers, judged by these runs, with every piece of evidence."""

from silobench.analysis.claims import claims_table, evidence_table, judge
from silobench.report.contents import Contents
from silobench.report.drawing import Section
from silobench.report.page import Page


def claims_page(contents: Contents) -> Page:
    """Return the claims that these runs bear on; empty if there are none."""
    claims = [claim for claim in judge(contents.cells, contents.findings) if claim.evidence]
    if not claims:
        return Page("claims.html", "Claims")
    table = claims_table(claims, "the parts below have every piece")
    pieces = [Section(piece.title, (), piece, is_folded=True) for piece in map(evidence_table, claims)]
    lead = "What published studies conclude, and whether these runs support it."
    return Page("claims.html", "Claims", [Section(table.title, (), table), *pieces], lead)
