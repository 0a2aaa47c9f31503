//! Every recogniser there is.

use super::ending::Recogniser;
use super::{
    build_tools, cargo, compilers, go, javascript, javascript_testers, jvm, python, python_testers,
    system, unix,
};

/// What lines bear that a recogniser has to see and that no word of trouble or warning finds:
/// further alternatives of one pattern.
pub(in super::super) const SIGNS: [&str; 10] = [
    cargo::SIGNS,
    python::SIGNS,
    python_testers::SIGNS,
    javascript::SIGNS,
    javascript_testers::SIGNS,
    go::SIGNS,
    jvm::SIGNS,
    build_tools::SIGNS,
    unix::SIGNS,
    system::SIGNS,
];

/// One of each.
pub(in super::super) fn recognisers() -> Vec<Box<dyn Recogniser>> {
    vec![
        Box::<cargo::Cargo>::default(),
        Box::<cargo::Panic>::default(),
        Box::<python_testers::Pytest>::default(),
        Box::<python_testers::Unittest>::default(),
        Box::<python::Traceback>::default(),
        Box::<python::Pip>::default(),
        Box::<javascript_testers::Jest>::default(),
        Box::<javascript_testers::Vitest>::default(),
        Box::<javascript_testers::Mocha>::default(),
        Box::<javascript::Npm>::default(),
        Box::<javascript::Node>::default(),
        Box::<javascript::Tsc>::default(),
        Box::<go::GoTest>::default(),
        Box::<compilers::Compiler>::default(),
        Box::<build_tools::Make>::default(),
        Box::<build_tools::Ninja>::default(),
        Box::<build_tools::CMake>::default(),
        Box::<jvm::Java>::default(),
        Box::<jvm::JvmBuild>::default(),
        Box::<unix::Git>::default(),
        Box::<unix::Tar>::default(),
        Box::<unix::Dd>::default(),
        Box::<system::Signals>::default(),
        Box::<system::Memory>::default(),
    ]
}
