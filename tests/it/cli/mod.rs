//! The command line as people use it: each verb, in each setting in which a server can be reached.

mod local_verbs;
mod matrix;
mod operators;
mod restarts;
mod run_and_config;
mod several_servers;
mod terminal;
mod verbs;
mod world;
