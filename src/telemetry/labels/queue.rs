//! The queue.

use super::words::words;

words! {
    /// What a system can stall for want of.
    pub enum Resource {
        /// A processor.
        Cpu = "cpu",
        /// Memory.
        Memory = "memory",
        /// A disk.
        Io = "io",
    }
}

words! {
    /// What a job in the queue waits for.
    pub enum WaitReason {
        /// A slot.
        Slots = "slots",
        /// A slot of its lane.
        Lane = "lane",
        /// Another job of its tenant to end.
        Tenant = "tenant",
        /// The system to stall less.
        Pressure = "pressure",
        /// Somebody to resume the queue or its lane.
        Paused = "paused",
        /// Its turn, which is about to come.
        Turn = "turn",
    }
}
