import CTimex
import Dispatch

/// The kernel's word on its clock, which a time service keeps.
enum KernelClock {
    /// Returns whether the kernel says that its clock is synchronised; nil where the call is missing or refused.
    ///
    /// The call reads only, so it needs no capability.
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
