import Broker
import Foundation
import Logging
import Synchronization
import Testing

@testable import coatcheck

@Suite("Log lines", .timeLimit(.minutes(2)))
struct LogLineTests {
    static let hostile = [
        "a\r\nb", "\u{1B}[31mred\u{1B}[0m", "\u{2028}\u{2029}", "\u{202E}gpj.exe", "\"},{\"level\":\"x", "\\", "\u{0}",
        "\u{7F}\u{85}\u{9B}",
        "\u{200B}\u{FEFF}", "\u{E0041}",
    ]

    @Test("A log message has hostile text → the text stays inside one JSON line (SEC-115)", arguments: hostile)
    func inert(_ text: String) throws {
        var line = LogLine(WallTime(milliseconds: 1_795_208_400_007), level: "info", message: text)
        line.add("user_agent", text)
        let bytes = line.finished()
        #expect(!bytes.contains { $0 < 0x20 || $0 == 0x7F })
        let visible = String(decoding: bytes, as: UTF8.self).unicodeScalars
        #expect(!visible.contains { [0x85, 0x9B, 0x200B, 0x2028, 0x2029, 0x202E, 0xFEFF, 0xE0041].contains($0.value) })
        let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        #expect(object["message"] as? String == text)
        #expect(object["user_agent"] as? String == text)
        #expect(object["level"] as? String == "info")
    }

    @Test("A log line → has its time in UTC with milliseconds (SEC-116)")
    func time() throws {
        let bytes = LogLine(WallTime(milliseconds: 1_795_208_400_007), level: "info", message: "x").finished()
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #"{"time":"2026-11-20T21:00:00.007Z","level":"info","message":"x"}"#)
    }

    @Test("A message of 100,000 characters → the line has fewer than 1,200 bytes (SEC-115)")
    func cut() {
        let bytes = LogLine(WallTime(seconds: 0), level: "info", message: String(repeating: "x", count: 100_000))
            .finished()
        #expect(bytes.count < 1200)
    }

    @Test(
        "A log message is at or above the log level → written with level, logger and metadata; it is below → not written"
    )
    func handler() throws {
        let pipe = Pipe()
        let sink = LogSink(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        var logger = Logger(label: "http") { label in
            JSONLogHandler(label: label, level: .warning, sink: sink, now: { WallTime(seconds: 0) })
        }
        logger[metadataKey: "path"] = "/a\nb"
        logger.info("quiet")
        logger.error("loud", metadata: ["n": "1"])
        sink.close()
        try pipe.fileHandleForWriting.close()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let expected =
            #"{"time":"1970-01-01T00:00:00.000Z","level":"error","message":"loud","logger":"http","n":"1","path":"/a\nb"}"#
        #expect(text == expected + "\n")
    }

    @Test(
        "The reader of the broker's log stops reading → lines up to the capacity wait in memory, and further lines are dropped"
    )
    func slowReader() throws {
        let pipe = Pipe()
        let sink = LogSink(descriptor: pipe.fileHandleForWriting.fileDescriptor)
        let line = [UInt8](repeating: 0x78, count: 1000)
        for _ in 0..<5000 { sink.write(line) }
        #expect(sink.waiting <= LogSink.capacity)
        Thread { _ = pipe.fileHandleForReading.readDataToEndOfFile() }.start()
        sink.close()
        try pipe.fileHandleForWriting.close()
    }

    @Test(
        "The broker emits an event → the log line has the session's handle and the request's id; the event is counted (SEC-116)"
    )
    func events() throws {
        let lines = Mutex<[String]>([])
        let log = ProcessLog(
            level: .debug, now: { WallTime(seconds: 0) },
            emit: { line in
                lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
            })
        let metrics = MetricsRegistry()
        let sink = EventLog(log: log, metrics: metrics).sink
        let handle = try #require(SessionHandle("ses_0123456789abcdefghijkl"))
        let (provider, client) = (ProviderName(unchecked: "oidc"), ClientName(unchecked: "ios"))
        RequestScope.$current.withValue(RequestScope(requestID: "req_1")) {
            sink.emit(.loginSucceeded(provider: provider, client: client, session: handle))
        }
        sink.emit(.refreshFailed(provider: provider, client: client, session: handle, reason: "lost", counted: nil))
        sink.emit(
            .refreshFailed(
                provider: provider, client: client, session: handle, reason: "rejected", counted: "invalid_request"))
        sink.emit(.refreshEndedSession(provider: provider, client: client, session: handle, reason: .grantRevoked))
        sink.emit(.refreshWaited(provider: provider, client: client))
        sink.emit(.refreshShared(provider: provider, client: client))
        sink.emit(.sessionEnded(reason: .loggedOut, count: 3, session: nil))
        sink.emit(.sessionEnded(reason: .admin, count: 1, session: handle))
        sink.emit(.storeFailed(operation: "sweep", detail: "disk full\n"))
        sink.emit(.storeFailed(operation: "tokenVersions", detail: "away"))
        let written = lines.withLock { $0 }
        #expect(written.count == 8)
        #expect(written.filter { $0.contains(#""session":"ses_0123456789abcdefghijkl""#) }.count == 5)
        #expect(
            written.filter {
                $0.contains(#""error":"invalid_request""#) && $0.contains("token_response.invalid_grant_codes")
            }.count == 1)
        #expect(written.filter { $0.contains(#""request_id":"req_1""#) }.count == 1)
        #expect(written.first?.contains(#""request_id":"req_1""#) == true)
        let text = metrics.text()
        let refreshes = #"coatcheck_refreshes_total{provider="oidc",client="ios","#
        #expect(text.contains(refreshes + #"result="failed",reason="lost"} 1"#))
        #expect(text.contains(refreshes + #"result="ended",reason="grant_revoked"} 1"#))
        #expect(text.contains(#"coatcheck_refresh_waits_total{provider="oidc",client="ios"} 1"#))
        #expect(text.contains(#"coatcheck_refreshes_shared_total{provider="oidc",client="ios"} 1"#))
        #expect(text.contains(#"coatcheck_logins_total{provider="oidc",client="ios",result="succeeded"} 1"#))
        #expect(text.contains(#"coatcheck_sessions_ended_total{reason="logged_out"} 3"#))
        // `TimedStore` already counts each failed call of `sweep`, so the log event must not count it again.
        #expect(!text.contains(#"coatcheck_store_failures_total{operation="sweep"}"#))
        #expect(text.contains(#"coatcheck_store_failures_total{operation="tokenVersions"} 1"#))
    }
}
