import Broker
import Synchronization
import Testing

@testable import coatcheck

@Suite("The rights of the store's role")
struct RightsWatchTests {
    /// The answers of a store, which a test changes.
    private final class Answers: Sendable {
        private let next: Mutex<Result<String?, StoreFailure>>
        init(_ first: Result<String?, StoreFailure>) { next = Mutex(first) }
        func set(_ answer: Result<String?, StoreFailure>) { next.withLock { $0 = answer } }
        func ask() throws(StoreFailure) -> String? { try next.withLock { $0 }.get() }
    }

    private func watch(_ answers: Answers) -> (RightsWatch, WrittenLines) {
        let lines = WrittenLines()
        let log = ProcessLog(level: .info, now: SystemClock.wallTime, emit: { lines.add($0) })
        return (RightsWatch({ () async throws(StoreFailure) in try answers.ask() }, log: log), lines)
    }

    @Test("The store's role lacks a right at the start → not ready and one error line, until the right is granted")
    func start() async {
        let lacking = "the role app lacks SELECT, INSERT on audience_tokens"
        let answers = Answers(.success(lacking))
        let (watch, lines) = watch(answers)
        await watch.look()
        #expect(!watch.isGood && watch.lacking == lacking)
        let log = lines.take()
        #expect(log.contains(#""level":"error""#) && log.contains(lacking), "\(log)")
        await watch.look()
        #expect(lines.take().isEmpty)
        // The store does not answer, so the watch keeps the result of its last look.
        answers.set(.failure(.unavailable("away")))
        await watch.look()
        #expect(!watch.isGood && lines.take().isEmpty)
        answers.set(.success(nil))
        await watch.look()
        #expect(watch.isGood && watch.lacking == nil)
        #expect(lines.take().contains("has its rights again"))
    }

    @Test("The store's role loses a right while the process runs → an error line, and the process stays ready")
    func running() async {
        let answers = Answers(.success(nil))
        let (watch, lines) = watch(answers)
        await watch.look()
        #expect(watch.isGood && lines.take().isEmpty)
        answers.set(.success("the role app lacks DELETE on sessions"))
        await watch.look()
        #expect(watch.isGood && watch.lacking != nil)
        #expect(lines.take().contains("DELETE on sessions"))
    }
}
