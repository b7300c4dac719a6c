"""What all papers found, in one place."""

from silobench.papers.hsieh2020 import findings as quagmire
from silobench.papers.niid_bench import findings as niid
from silobench.papers.zhao2018 import findings as zhao

FINDINGS = (*niid.FINDINGS, *zhao.FINDINGS, *quagmire.FINDINGS)
