import Broker
import CLibPQ
import Synchronization

/// A connection of its own that hears which sessions ended on other replicas, on a thread of its own.
///
/// It is asked every two seconds whether it still hears: one that is gone loses notices without a word (note 23).
final class EndingListener: Sendable {
    private static let pulse = Duration.seconds(2)
    private static let longestPause = Duration.seconds(2)

    private let settings: ConnectionSettings
    private let origin: String
    private let handler: @Sendable (EndingNotice) -> Void
    private let wakeup: Wakeup
    private let isClosed = Atomic<Bool>(false)

    /// Starts it; nil when the system has no descriptor or thread left.
    init?(
        _ settings: ConnectionSettings, origin: String, _ handler: @escaping @Sendable (EndingNotice) -> Void
    ) {
        guard let wakeup = Wakeup() else { return nil }
        self.settings = settings
        self.origin = origin
        self.handler = handler
        self.wakeup = wakeup
        guard OSThread.start({ [self] in run() }) else { return nil }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        wakeup.signal()
    }

    private var closed: Bool { isClosed.load(ordering: .acquiring) }

    private func run() {
        var pause = Duration.milliseconds(50)
        handler(.deaf)
        while !closed {
            do throws(StoreOpenFailure) {
                let connection = try LibPQConnection(settings, wakeup: wakeup)
                try connection.execute("LISTEN \(EndingExchange.channel)", within: Self.pulse)
                pause = .milliseconds(50)
                handler(.hearing)
                defer { handler(.deaf) }
                while !closed { try hear(connection) }
            } catch {
                _ = wakeup.wait(for: -1, events: 0, atMost: closed ? .zero : pause)
                pause = min(pause * 2, Self.longestPause)
            }
        }
    }

    /// Hears until the next pulse, and feels it.
    private func hear(_ connection: LibPQConnection) throws(StoreOpenFailure) {
        let end = MonotonicTime.now() + Self.pulse
        while !closed {
            deliver(connection)
            let rest = end - MonotonicTime.now()
            guard rest > .zero else { break }
            if wakeup.wait(for: connection.descriptor, events: 1, atMost: rest) != 0 {
                guard PQconsumeInput(connection.handle) == 1 else { throw .unreachable(connection.message) }
            }
        }
        if closed { return }
        try connection.execute("SELECT 1", within: Self.pulse)
    }

    private func deliver(_ connection: LibPQConnection) {
        var ended: [EndedSession] = []
        while let notice = PQnotifies(connection.handle) {
            if let text = notice.pointee.extra.map({ String(cString: $0) }) {
                ended += EndingPayload.decode(text, origin: origin) ?? []
            }
            PQfreemem(notice)
        }
        if !ended.isEmpty { handler(.ended(ended)) }
    }
}
