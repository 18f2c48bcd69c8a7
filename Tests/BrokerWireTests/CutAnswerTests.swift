import HTTPTypes
import NIOCore
import NIOSSL
import Testing

@testable import BrokerWire

/// The end of a connection after an answer that was complete or broken off.
///
/// Only a whole answer has an orderly end.
@Suite("Answers that break off before their end", .timeLimit(.minutes(2)))
struct CutAnswerTests {
    private struct BrokenOff: Error {}

    /// Answers in three pieces.
    ///
    /// `/cut` breaks off before the third piece, and `/endless` never ends.
    private static let service = TestService { request, _, _ in
        let path = request.path ?? ""
        return Answer(
            .ok, [],
            body: .stream(length: nil) { writer in
                try await writer.write(ByteBuffer(string: "[1,"))
                try await writer.write(ByteBuffer(string: "2,"))
                while path == "/endless" { try await writer.write(ByteBuffer(repeating: 0x78, count: 16_384)) }
                if path == "/cut" { throw BrokenOff() }
                try await writer.write(ByteBuffer(string: "3]"))
                try await writer.finish(nil)
            })
    }

    struct Manner: Sendable, CustomTestStringConvertible {
        let version: Int
        let tls: TLSVersion?
        var testDescription: String { "HTTP/1.\(version), \(tls.map { "\($0)" } ?? "plain")" }

        func context() throws -> NIOSSLContext? {
            guard let tls else { return nil }
            return try TestCertificate.client { $0.maximumTLSVersion = tls }
        }
    }

    private static let manners = [nil, TLSVersion.tlsv12, .tlsv13].flatMap { tls in
        [0, 1].map { Manner(version: $0, tls: tls) }
    }

    private static func request(_ path: String, _ manner: Manner) -> String {
        "GET \(path) HTTP/1.\(manner.version)\r\nHost: a\r\nConnection: close\r\n\r\n"
    }

    @Test(
        "A service breaks off an answer, with or without TLS → the client sees a broken connection instead of an orderly end",
        arguments: manners)
    func brokenOff(_ manner: Manner) async throws {
        try await Self.service.run(isSecure: manner.tls != nil) { (port) async throws in
            let cut = try await WireClient.connect(port, manner.context())
            try await cut.send(Self.request("/cut", manner))
            #expect(try await cut.ended() == .broken)
            #expect(!cut.text.contains("3]"))
            let whole = try await WireClient.connect(port, manner.context())
            try await whole.send(Self.request("/whole", manner))
            #expect(try await whole.ended() == .orderly)
            #expect(whole.text.hasSuffix(manner.version == 0 ? "[1,2,3]" : "2\r\n3]\r\n0\r\n\r\n"))
        }
    }

    @Test(
        "A client does not read an endless answer → the broker breaks the connection off, without an orderly end",
        arguments: manners)
    func unread(_ manner: Manner) async throws {
        var limits = ConnectionLimits()
        limits.rateWindow = .milliseconds(500)
        limits.rateGrace = .milliseconds(100)
        try await Self.service.run(isSecure: manner.tls != nil, limits: limits) { (port) async throws in
            let client = try await WireClient.connect(port, manner.context(), pausesAtFirst: true)
            try await client.send(Self.request("/endless", manner))
            _ = try await client.received { !$0.isEmpty }
            // The client notices the reset in one of two ways: without reading; or with the first byte that it reads.
            try await Task.sleep(for: .seconds(2))
            try? await client.read()
            #expect(try await client.ended() == .broken)
        }
    }

    @Test(
        "A client does not read a body of 32 MiB over TLS → the broker breaks the connection off, without an orderly end"
    )
    func unreadSlices() async throws {
        var limits = ConnectionLimits()
        limits.rateWindow = .milliseconds(500)
        limits.rateGrace = .milliseconds(100)
        let body = ByteBuffer(repeating: 0x78, count: 32 << 20)
        let service = TestService { _, _, _ in Answer(.ok, [], body: .whole(body)) }
        try await service.run(isSecure: true, limits: limits) { (port) async throws in
            let client = try await WireClient.connect(port, TestCertificate.client(), pausesAtFirst: true)
            try await client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            _ = try await client.received { !$0.isEmpty }
            try await Task.sleep(for: .seconds(2))
            try? await client.read()
            #expect(try await client.ended() == .broken)
            #expect(client.count < body.readableBytes)
        }
    }
}
