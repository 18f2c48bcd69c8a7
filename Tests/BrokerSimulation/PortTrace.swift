/// The record of one run, in order: the store operations, the provider calls, the answers to callers and the notices to listeners.
///
/// If two versions of the broker have equal traces, they behave alike. Reads of the clock are not recorded.
final class PortTrace {
    private let prints: Bool
    private var state: UInt64 = 0xCBF2_9CE4_8422_2325
    private(set) var lines = 0

    /// Creates a trace, which prints each line if `prints` is true.
    init(prints: Bool) { self.prints = prints }

    func add(_ line: String) {
        lines += 1
        for byte in line.utf8 { state = (state ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        state = (state ^ 0x0A) &* 0x0000_0100_0000_01B3
        if prints { print(line) }
    }

    /// The number of recorded lines, and a hash of all lines.
    var summary: String { "\(lines) lines, \(String(state, radix: 16))" }
}

extension SimulatedProcess {
    /// Records a call through a port with its arguments, does the work, and then records the result or the error.
    func recording<Value, Failure: Error>(
        _ call: @autoclosure () -> String, _ words: (Value) -> String, failure: (Failure) -> String,
        _ work: () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        guard let trace = world.ports else { return try await work() }
        let call = call()
        trace.add("\(world.scheduler.now) \(number) > \(call)")
        do throws(Failure) {
            let value = try await work()
            trace.add("\(world.scheduler.now) \(number) < \(call): \(words(value))")
            return value
        } catch {
            trace.add("\(world.scheduler.now) \(number) < \(call): \(failure(error))")
            throw error
        }
    }
}
