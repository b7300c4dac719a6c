"""What all papers found, in one place."""

from silobench.analysis import niid, zhao

FINDINGS = (*niid.FINDINGS, *zhao.FINDINGS)
