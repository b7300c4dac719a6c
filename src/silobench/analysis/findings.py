"""What all papers found, in one place."""

from silobench.analysis import niid, quagmire, zhao

FINDINGS = (*niid.FINDINGS, *zhao.FINDINGS, *quagmire.FINDINGS)
