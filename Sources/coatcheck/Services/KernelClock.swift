import CTimex
import Dispatch

/// The kernel's information about its clock, which a time service maintains.
enum KernelClock {
    /// Returns whether the kernel reports its clock as synchronised; nil if the kernel lacks the system call or refuses it.
    ///
    /// The system call only reads, so it needs no capability.
    static func isSynchronised() async -> Bool? {
        await withCheckedContinuation { waiter in
            DispatchQueue.global().async { waiter.resume(returning: read()) }
        }
    }

    private static func read() -> Bool? {
        var asked = timex()
        let state = adjtimex(&asked)
        guard state >= 0 else { return nil }
        return state != TIME_ERROR && asked.status & STA_UNSYNC == 0
    }
}
