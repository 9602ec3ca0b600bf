"""Certify an answer: which tokens it selects, how good that is, and which theorem says so."""

from keytokens.certification.certificate import Certificate as Certificate
from keytokens.certification.certificate import misalignment as misalignment
from keytokens.certification.door import certify as certify
from keytokens.certification.theorems import Assumption as Assumption
from keytokens.certification.theorems import Theorem as Theorem
