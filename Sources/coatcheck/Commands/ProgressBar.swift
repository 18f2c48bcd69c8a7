import Foundation
import Glibc

/// A progress bar on standard error.
///
/// A terminal shows one line that is redrawn. Other outputs get a line for each tenth of the work.
struct ProgressBar {
    private let total: Int
    private let isTerminal: Bool
    private var done = 0
    private var shown = -1

    init(total: Int) {
        self.total = total
        isTerminal = isatty(2) == 1
    }

    /// Adds to the progress.
    mutating func advance(_ count: Int) {
        done += count
        let percent = total > 0 ? min(done * 100 / total, 100) : 100
        let step = isTerminal ? percent : percent / 10 * 10
        guard step != shown else { return }
        shown = step
        let filled = percent * 30 / 100
        let bar = String(repeating: "#", count: filled) + String(repeating: ".", count: 30 - filled)
        let line = "[\(bar)] \(percent) % (\(done) of \(total))"
        FileHandle.standardError.write(Data((isTerminal ? "\r" + line : line + "\n").utf8))
    }

    /// Ends the line.
    func finish() { if isTerminal { FileHandle.standardError.write(Data("\n".utf8)) } }
}
