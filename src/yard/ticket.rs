//! Tickets: names for a job that nobody can guess, for addresses that leave its tenant's sight.

use std::fmt;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::hex::Hex;
use crate::ids::{JobId, JobNumber, Tenant};

/// Bytes of a ticket that cannot be guessed.
const PROOF_BYTES: usize = 16;

/// Makes and checks tickets. They follow from a secret that only this server has: nothing is
/// kept for them, and they end with the server.
pub(super) struct Tickets {
    secret: [u8; 32],
}

impl fmt::Debug for Tickets {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

impl Tickets {
    /// With a fresh secret.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        Ok(Self { secret })
    }

    /// The ticket of a job: digits, a `-` and hexadecimal digits.
    pub(super) fn of(&self, job: JobId) -> String {
        format!("{job}-{}", self.proof(job, None))
    }

    /// A ticket that carries two numbers along, which nobody can change: three numbers with a `-`
    /// between, and the proof.
    pub(super) fn carrying(&self, job: JobId, numbers: [u64; 2]) -> String {
        let [first, second] = numbers;
        format!("{job}-{first}-{second}-{}", self.proof(job, Some(numbers)))
    }

    /// The job of this tenant that a ticket names; nothing where it is none of its own.
    pub(super) fn job_of(&self, tenant: Tenant, ticket: &str) -> Option<JobId> {
        let (job, proof) = ticket.split_once('-')?;
        let job = job.parse::<JobNumber>().ok()?.of(tenant);
        bool::from(self.proof(job, None).as_bytes().ct_eq(proof.as_bytes())).then_some(job)
    }

    /// The same of a ticket that carries numbers, and those.
    pub(super) fn carried(&self, tenant: Tenant, ticket: &str) -> Option<(JobId, [u64; 2])> {
        let mut parts = ticket.split('-');
        let job = parts.next()?.parse::<JobNumber>().ok()?.of(tenant);
        let numbers = [parts.next()?.parse().ok()?, parts.next()?.parse().ok()?];
        // As it was given out: other ways to write the same numbers are no tickets.
        let is_ours = bool::from(self.carrying(job, numbers).as_bytes().ct_eq(ticket.as_bytes()));
        is_ours.then_some((job, numbers))
    }

    fn proof(&self, job: JobId, numbers: Option<[u64; 2]>) -> String {
        // All but the last have a fixed length, so that no two tickets hash the same text.
        let hash = Sha256::new().chain_update(self.secret).chain_update(job.number().to_be_bytes());
        let hash = hash.chain_update([u8::from(numbers.is_some())]);
        let [first, second] = numbers.unwrap_or_default().map(u64::to_be_bytes);
        let hash = hash.chain_update(first).chain_update(second);
        let hash = hash.chain_update(job.tenant().name());
        Hex(&hash.finalize()[..PROOF_BYTES]).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_travel_with_their_job_and_cannot_be_changed() {
        let tickets = Tickets::new().unwrap();
        let job = JobId::local(12);
        let ticket = tickets.carrying(job, [8000, 7]);
        assert_eq!(tickets.carried(Tenant::LOCAL, &ticket), Some((job, [8000, 7])));
        let other = Tenant::named("tickets-carried").unwrap();
        assert_eq!(tickets.carried(other, &ticket), None, "of another tenant");
        assert_eq!(tickets.job_of(Tenant::LOCAL, &ticket), None, "a ticket of another kind");
        let (changed, padded) =
            (ticket.replace("-8000-", "-8001-"), ticket.replace("-8000-", "-08000-"));
        let moved = ticket.replacen("12-", "13-", 1);
        let later = ticket.replace("-7-", "-8-");
        let plain = tickets.of(job);
        for forged in ["", "12-8000-7-", "---", &changed, &padded, &moved, &later, &plain] {
            assert_eq!(tickets.carried(Tenant::LOCAL, forged), None, "{forged}");
        }
    }

    #[test]
    fn a_ticket_names_its_job_and_no_other_text_does() {
        let tickets = Tickets::new().unwrap();
        let job = JobId::local(12);
        let ticket = tickets.of(job);
        assert_eq!(tickets.job_of(Tenant::LOCAL, &ticket), Some(job));
        let other = Tenant::named("tickets-other").unwrap();
        assert_eq!(tickets.job_of(other, &ticket), None, "of another tenant");
        assert_eq!(ticket.len(), "12-".len() + 2 * PROOF_BYTES);
        let other_job = ticket.replacen("12-", "13-", 1);
        let cut = &ticket[..ticket.len() - 1];
        for forged in ["", "12", "12-", "-", &other_job, cut, "x-y"] {
            assert_eq!(tickets.job_of(Tenant::LOCAL, forged), None, "{forged}");
        }
        assert_eq!(
            Tickets::new().unwrap().job_of(Tenant::LOCAL, &ticket),
            None,
            "of another server"
        );
    }
}
