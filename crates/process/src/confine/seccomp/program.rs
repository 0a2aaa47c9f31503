//! Rules as a program for the kernel.
//!
//! One program with all refusals, which finds a call by halving: the kernel runs it for every call
//! once when it is installed, to learn which are always allowed, and that is most of the price. A
//! filter per refusal that compares one call after the other costs several times as much.

use std::mem::offset_of;

use libc::{BPF_ABS, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_W};
use seccompiler::sock_filter;

use super::rules::{Is, Refusal, Rule, Test};

/// The processor as the kernel names it; a filter sees the calls of 32-bit programs as well, which
/// have other numbers.
#[cfg(target_arch = "x86_64")]
const PROCESSOR: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const PROCESSOR: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const PROCESSOR: Option<u32> = None;

/// From here on are the same calls once more, for programs with short pointers (x32). No kernel
/// for another processor has a call with so high a number.
const SECOND_NUMBERS: u32 = 0x4000_0000;

/// What the kernel takes.
const MOST_INSTRUCTIONS: usize = 4096;

/// Looked through one by one.
const FEW: usize = 6;

type Code = Vec<sock_filter>;

/// The program for these rules; `None` where this processor's calls are not known, or it would be
/// longer than the kernel takes.
pub(super) fn assemble(mut rules: Vec<Rule>) -> Option<Code> {
    rules.sort_by_key(|rule| rule.call);
    let mut answers = Answers::default();
    let calls = rules
        .iter()
        .map(|rule| {
            Some(Call { number: u32::try_from(rule.call).ok()?, answer: answers.to(rule)? })
        })
        .collect::<Option<Vec<_>>>()?;
    let mut code = vec![
        load(offset_of!(libc::seccomp_data, arch)),
        jump(BPF_JEQ, PROCESSOR?, 1, 0),
        finish(libc::SECCOMP_RET_KILL_PROCESS),
        load(offset_of!(libc::seccomp_data, nr)),
        jump(BPF_JGE, SECOND_NUMBERS, 0, 1),
        refuse(Refusal::Unknown),
    ];
    code.extend(find(&calls, 0));
    code.extend(answers.code);
    (code.len() <= MOST_INSTRUCTIONS).then_some(code)
}

/// A call with a rule.
struct Call {
    number: u32,
    /// Where its answer begins in [`Answers::code`].
    answer: usize,
}

/// What stands behind the search: calls that are treated alike share their answer.
#[derive(Default)]
struct Answers<'a> {
    code: Code,
    known: Vec<(&'a Rule, usize)>,
}

impl<'a> Answers<'a> {
    fn to(&mut self, rule: &'a Rule) -> Option<usize> {
        let is_alike = |other: &Rule| other.cases == rule.cases && other.refusal == rule.refusal;
        if let Some((_, start)) = self.known.iter().find(|(other, _)| is_alike(other)) {
            return Some(*start);
        }
        let start = self.code.len();
        self.code.extend(answer(rule)?);
        self.known.push((rule, start));
        Some(start)
    }
}

/// Finds the call whose number was loaded and goes to its answer, past so many instructions that
/// stand between this and the answers. Never runs past its end.
fn find(calls: &[Call], between: usize) -> Code {
    if calls.len() > FEW {
        let (lower, upper) = calls.split_at(calls.len() / 2);
        let above = find(upper, between);
        let below = find(lower, between + above.len());
        let mut code = vec![jump(BPF_JGE, upper[0].number, 0, 1), skip(below.len())];
        code.extend(below);
        code.extend(above);
        return code;
    }
    let mut code = vec![finish(libc::SECCOMP_RET_ALLOW)];
    for call in calls.iter().rev() {
        let distance = code.len() + between + call.answer;
        code.splice(0..0, [jump(BPF_JEQ, call.number, 0, 1), skip(distance)]);
    }
    code
}

/// The answer to one call. Never runs past its end.
fn answer(rule: &Rule) -> Option<Code> {
    let mut code = Vec::new();
    for case in &rule.cases {
        let mut held = vec![refuse(rule.refusal)];
        for test in case.iter().rev() {
            held.splice(0..0, check(test, held.len())?);
        }
        code.extend(held);
    }
    code.push(finish(libc::SECCOMP_RET_ALLOW));
    Some(code)
}

/// Goes on where the test holds, else leaves out so many instructions. `None`: too many values.
fn check(test: &Test, otherwise: usize) -> Option<Code> {
    let argument = offset_of!(libc::seccomp_data, args) + usize::from(test.argument) * 8;
    let mut code = vec![load(argument)];
    match &test.is {
        Is::OneOf(values) => {
            for (value, left) in values.iter().zip((1..=values.len()).rev()) {
                code.push(jump(BPF_JEQ, *value, u8::try_from(left).ok()?, 0));
            }
        }
        Is::Not(value) => code.push(jump(BPF_JEQ, *value, 0, 1)),
        Is::WithAnyBit(bits) => code.push(jump(BPF_JSET, *bits, 1, 0)),
    }
    code.push(skip(otherwise));
    Some(code)
}

/// Loads four bytes of the description of a call: of an argument the lower half, since both
/// processors have it first.
fn load(offset: usize) -> sock_filter {
    instruction(BPF_LD | BPF_W | BPF_ABS, small(offset), (0, 0))
}

/// Compares what was loaded, and leaves out so many instructions if it is so, and if not.
fn jump(comparison: u32, value: u32, if_so: u8, if_not: u8) -> sock_filter {
    instruction(BPF_JMP | comparison | BPF_K, value, (if_so, if_not))
}

fn skip(instructions: usize) -> sock_filter {
    instruction(BPF_JMP | BPF_JA, small(instructions), (0, 0))
}

fn refuse(refusal: Refusal) -> sock_filter {
    finish(libc::SECCOMP_RET_ERRNO | refusal.errno().cast_unsigned())
}

fn finish(action: u32) -> sock_filter {
    instruction(BPF_RET | BPF_K, action, (0, 0))
}

fn instruction(code: u32, value: u32, (jt, jf): (u8, u8)) -> sock_filter {
    #[expect(clippy::cast_possible_truncation, reason = "all codes are eight bits")]
    let code = code as u16;
    sock_filter { code, jt, jf, k: value }
}

#[expect(clippy::cast_possible_truncation, reason = "a program has at most 4,096 instructions")]
fn small(count: usize) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::rules::{CallRules, NetworkSockets, SocketRules, UnixSockets, refused};
    use super::*;
    use crate::confinement::Profile;

    const SERVER: i32 = 4711;

    /// What the kernel would answer.
    fn run(program: &[sock_filter], call: &libc::seccomp_data) -> u32 {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            let code = u32::from(code);
            at += 1;
            let holds = match code {
                code if code == BPF_LD | BPF_W | BPF_ABS => {
                    loaded = four_bytes(call, k as usize);
                    continue;
                }
                code if code == BPF_RET | BPF_K => return k,
                code if code == BPF_JMP | BPF_JA => {
                    at += k as usize;
                    continue;
                }
                code if code == BPF_JMP | BPF_JEQ | BPF_K => loaded == k,
                code if code == BPF_JMP | BPF_JGE | BPF_K => loaded >= k,
                code if code == BPF_JMP | BPF_JSET | BPF_K => loaded & k != 0,
                code => panic!("not used here: {code}"),
            };
            at += usize::from(if holds { jt } else { jf });
        }
    }

    fn four_bytes(call: &libc::seccomp_data, offset: usize) -> u32 {
        let mut bytes = call.nr.to_ne_bytes().to_vec();
        bytes.extend(call.arch.to_ne_bytes());
        bytes.extend(call.instruction_pointer.to_ne_bytes());
        bytes.extend(call.args.iter().flat_map(|argument| argument.to_ne_bytes()));
        u32::from_ne_bytes(bytes[offset..offset + 4].try_into().unwrap())
    }

    /// What the rules say.
    fn expected(rules: &[Rule], call: &libc::seccomp_data) -> u32 {
        let holds = |test: &Test| {
            let value = call.args[usize::from(test.argument)] as u32;
            match &test.is {
                Is::OneOf(values) => values.contains(&value),
                Is::Not(other) => value != *other,
                Is::WithAnyBit(bits) => value & bits != 0,
            }
        };
        let is_refused = |rule: &&Rule| rule.cases.iter().any(|case| case.iter().all(holds));
        let mut of_this = rules.iter().filter(|rule| rule.call == libc::c_long::from(call.nr));
        of_this.find(is_refused).map_or(libc::SECCOMP_RET_ALLOW, |rule| refuse(rule.refusal).k)
    }

    fn rules() -> impl Strategy<Value = Vec<Rule>> {
        let profile = prop::sample::select(Profile::WORDS.map(|(_, profile)| profile).to_vec());
        let network = prop::sample::select(NetworkSockets::ALL.to_vec());
        let unix = prop::sample::select(UnixSockets::ALL.to_vec());
        let sockets = (network, unix).prop_map(|(network, unix)| SocketRules { network, unix });
        let many = (5000..5600).chain([SERVER, -SERVER]).collect();
        let untouchable = prop::sample::select(vec![vec![], vec![SERVER, 1, -SERVER], many]);
        (profile, sockets, untouchable).prop_map(|(profile, sockets, untouchable)| {
            refused(&CallRules { profile, sockets, untouchable })
        })
    }

    /// Mostly values that matter to some rule.
    fn argument() -> impl Strategy<Value = u64> {
        let low = prop_oneof![
            any::<u32>(),
            0..20_u32,
            prop::sample::select([SERVER, -SERVER, -1].map(i32::cast_unsigned).to_vec()),
            prop::sample::select(vec![0x5412, 0x8902, 0x1000_0000, 0x80]),
        ];
        (low, prop_oneof![Just(0), any::<u32>()])
            .prop_map(|(low, high)| u64::from(high) << 32 | u64::from(low))
    }

    fn call(nr: i32, args: [u64; 6]) -> libc::seccomp_data {
        libc::seccomp_data { nr, arch: PROCESSOR.unwrap(), instruction_pointer: 0, args }
    }

    proptest! {
        #[test]
        fn the_program_does_what_the_rules_say(
            rules in rules(),
            args in prop::array::uniform6(argument()),
        ) {
            let program = assemble(rules.clone()).unwrap();
            for nr in 0..500 {
                let call = call(nr, args);
                prop_assert_eq!(run(&program, &call), expected(&rules, &call), "call {}", nr);
            }
        }
    }

    #[test]
    fn calls_by_other_numbers_are_no_way_around() {
        let sockets = SocketRules { network: NetworkSockets::Any, unix: UnixSockets::Any };
        let untouchable = Vec::new();
        let rules = refused(&CallRules { profile: Profile::Default, sockets, untouchable });
        let program = assemble(rules).unwrap();
        for nr in [0, 39, 101, 521] {
            let short_pointers = call(nr | 0x4000_0000, [0; 6]);
            assert_eq!(run(&program, &short_pointers), refuse(Refusal::Unknown).k);
            let other_processor = libc::seccomp_data { arch: 0x4000_0003, ..call(nr, [0; 6]) };
            assert_eq!(run(&program, &other_processor), libc::SECCOMP_RET_KILL_PROCESS);
        }
    }
}
