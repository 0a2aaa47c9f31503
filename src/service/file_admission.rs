//! Admission of file calls: the rules that hold for the tools that read and write files.

use std::path::Path;

use tokio::runtime::Handle;

use super::admission::{
    AdmissionControl, AdmissionRules, AuditedRequest, decide, open_allowed_dir,
};
use super::admission_error::AdmissionError;
use super::submission::CallerContext;
use crate::confinement::GrantedConfinement;
use crate::ids::TenantId;
use crate::policy::rules::{PolicyRule, matches_wildcard};
use crate::policy::{Policy, PolicyEvaluation, PolicyRefusal, PolicyRequest, RequestedCommand};
use crate::process::OpenedDir;
use crate::spec::DEFAULT_LANE;

/// The names of the tools that read and write files.
pub(super) const READ_FILE: &str = "read_file";
pub(super) const WRITE_FILE: &str = "write_file";

/// `true` if a file tool may be used beside the allow list, if there is one.
pub(super) fn is_file_tool_listed(policy: &Policy, tool: &str, tenant: TenantId) -> bool {
    let names_it = |rule: &PolicyRule| {
        rule.covers(tenant.name(), DEFAULT_LANE) && matches_wildcard(rule.text(), tool)
    };
    match (&policy.allow, tool) {
        (Some(allow), READ_FILE | WRITE_FILE) => allow.iter().any(names_it),
        (Some(_) | None, _) => true,
    }
}

/// A file call as the policy sees it: the command `TOOL PATH`.
#[derive(Clone, Copy)]
pub(super) struct FileCall<'a> {
    pub(super) tool: &'a str,
    pub(super) path: &'a str,
}

/// Admits a file call or refuses it; either way the decision is written to the audit log first.
///
/// Deny and ask rules apply, and so does `check`. Beside an allow list, the list must name a tool that reads
/// or writes files. Returns the working directory that was checked, opened. Call it on a thread of the
/// runtime that may block.
pub(super) fn admit_call(
    admission: &AdmissionControl,
    FileCall { tool, path }: FileCall<'_>,
    cwd: &Path,
    caller: &CallerContext,
    check: impl FnOnce(&Path) -> Result<(), AdmissionError>,
) -> Result<OpenedDir, AdmissionError> {
    let all_rules = admission.rules();
    let policy = Policy { allow: None, ..all_rules.policy.clone() };
    let rules = AdmissionRules { policy, ..(*all_rules).clone() };
    let decided = open_allowed_dir(&admission.host, &rules, caller.tenant, cwd).and_then(|root| {
        check(root.path())?;
        let request = PolicyRequest {
            command: RequestedCommand::Direct { program: tool, args: &[path.to_owned()] },
            environment: &[],
            tenant: caller.tenant.name(),
            lane: DEFAULT_LANE,
            shell: None,
        };
        let reading = PolicyEvaluation::new(&rules.policy, &request);
        let grant = decide(&reading, rules.policy.uncertain, None)?;
        if !is_file_tool_listed(&all_rules.policy, tool, caller.tenant) {
            let command = tool.to_owned();
            return Err(AdmissionError::ByPolicy(PolicyRefusal::NotAllowed { command }));
        }
        Ok((root, grant))
    });
    let command = format!("{tool} {path}");
    let cwd = cwd.to_string_lossy();
    let audited = AuditedRequest {
        caller,
        job: None,
        command: &rules.redactor.mask_text(&command),
        cwd: &rules.redactor.mask_text(&cwd),
        // The server itself reads or writes the file.
        confinement: GrantedConfinement::NOTHING,
    };
    let writing = admission.write_decision(&audited, decided.as_ref().map(|(_, grant)| grant));
    let written = Handle::current().block_on(writing);
    let (root, _) = decided?;
    written.map(|()| root)
}
