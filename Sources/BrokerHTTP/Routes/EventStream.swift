import Broker
import Hummingbird
import NIOCore

/// Is one listener of `GET /v1/session/events`: notices and comments, merged into one stream that ends with the session,
/// the client or the process.
struct EventStream: Sendable {
    private enum Tick: Sendable {
        case notice(SessionNotice)
        case heartbeat
    }

    private let first: SessionView
    private let notices: AsyncStream<SessionNotice>
    private let heartbeat: Duration
    private let channel: any Channel
    private let connection: ClientConnection?

    init(
        first: SessionView, notices: AsyncStream<SessionNotice>, heartbeat: Duration, channel: any Channel,
        connection: ClientConnection?
    ) {
        self.first = first
        self.notices = notices
        self.heartbeat = heartbeat
        self.channel = channel
        self.connection = connection
    }

    /// Writes until there is nothing more to tell. None of it holds up a shutdown: the stream ends when the server
    /// begins to quiesce (engineering note 7).
    func write(to writer: inout any ResponseBodyWriter) async throws {
        let (ticks, continuation) = AsyncStream.makeStream(of: Tick.self, bufferingPolicy: .bufferingNewest(16))
        let forgetGone = connection?.whenGone { continuation.finish() }
        let forgetQuiescing = connection?.whenQuiescing { continuation.finish() }
        let timer = channel.eventLoop.scheduleRepeatedTask(
            initialDelay: TimeAmount(heartbeat), delay: TimeAmount(heartbeat)
        ) { _ in continuation.yield(.heartbeat) }
        let forwarder = Task { [notices] in
            for await notice in notices { continuation.yield(.notice(notice)) }
            continuation.finish()
        }
        defer {
            forwarder.cancel()
            timer.cancel()
            forgetGone?()
            forgetQuiescing?()
        }
        try await writer.write(Self.event("session", SessionBody.bytes(first)))
        for await tick in ticks {
            switch tick {
            case .heartbeat: try await writer.write(ByteBuffer(string: ":\n\n"))
            case .notice(.tokensRefreshed): try await writer.write(Self.event("tokens_refreshed", Array("{}".utf8)))
            case .notice(.ended(let reason)):
                var body = JSONWriter(capacity: 48)
                body.object { $0.member("reason", reason.rawValue) }
                try await writer.write(Self.event("session_ended", body.bytes))
            }
        }
        try await writer.finish(nil)
    }

    private static func event(_ name: String, _ data: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.writeString("event: \(name)\ndata: ")
        buffer.writeBytes(data)
        buffer.writeString("\n\n")
        return buffer
    }
}
