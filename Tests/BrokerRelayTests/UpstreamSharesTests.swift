import Broker
import BrokerRelay
import BrokerWire
import HTTPTypes
import NIOCore
import Testing

@Suite("The shares of users and sessions in an upstream's calls", .timeLimit(.minutes(1)))
struct UpstreamSharesTests {
    private static func handle(_ number: Int) -> SessionHandle {
        SessionHandle(random: (0..<16).map { UInt8(truncatingIfNeeded: number >> (8 * ($0 % 4))) })
    }

    @Test(
        "An upstream has a limit of calls → a user gets a quarter, a session an eighth; each at least two, if one is left",
        arguments: [
            (1, 1, 1), (2, 1, 1), (3, 2, 2), (4, 2, 2), (8, 2, 2), (12, 3, 2), (16, 4, 2), (40, 10, 5),
            (1024, 256, 128), (65_536, 16_384, 8192),
        ])
    func limits(limit: Int, subject: Int, session: Int) {
        let shares = UpstreamShares(limit: limit)
        #expect(shares.limitPerSubject == subject)
        #expect(shares.limitPerSession == session)
    }

    @Test(
        "A session or user uses its share of an upstream's calls → the next is refused; all calls are used → each is refused",
        arguments: [16, 40])
    func refusals(limit: Int) throws {
        var shares = UpstreamShares(limit: limit)
        for _ in 0..<shares.limitPerSession { try shares.take("ana", Self.handle(0)) }
        #expect(throws: UpstreamShares.Refusal.shareIsTaken) { try shares.take("ana", Self.handle(0)) }
        for _ in shares.limitPerSession..<shares.limitPerSubject { try shares.take("ana", Self.handle(1)) }
        for session in 0..<5 {
            #expect(throws: UpstreamShares.Refusal.shareIsTaken) { try shares.take("ana", Self.handle(session)) }
        }
        for user in shares.limitPerSubject..<limit { try shares.take("user-\(user)", Self.handle(user + 10)) }
        #expect(shares.count == limit)
        #expect(throws: UpstreamShares.Refusal.allAreTaken) { try shares.take("new", Self.handle(9)) }
        #expect(throws: UpstreamShares.Refusal.shareIsTaken) { try shares.take("ana", Self.handle(9)) }
        shares.giveBack("ana", Self.handle(0))
        try shares.take("new", Self.handle(9))
    }

    @Test("A user's last call ends → the user's entry is removed, and a second release of this call has no effect")
    func bounded() throws {
        var shares = UpstreamShares(limit: 64)
        for round in 0..<1000 {
            try shares.take("user-\(round)", Self.handle(round))
            #expect(shares.entries == 2)
            shares.giveBack("user-\(round)", Self.handle(round))
            shares.giveBack("user-\(round)", Self.handle(round))
        }
        #expect(shares.entries == 0)
        #expect(shares.count == 0)
    }

    @Test("A short upload waits for the rest of its body → it does not count among the upstream's simultaneous calls")
    func heldBody() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, maximumConcurrent: 1) { (fixture) async throws in
                let (stream, source) = AsyncStream<ByteBuffer>.makeStream()
                let body = UpstreamRequest.Body.stream(UpstreamRequest.Stream(stream), length: 2)
                async let slow = fixture.call(.post, "/slow", body: body)
                source.yield(ByteBuffer(string: "a"))
                for _ in 0..<3 { #expect(try await fixture.of("ben", 1).call(.get, "/x").status.code == 200) }
                #expect(fixture.tokens.given == 3)
                source.yield(ByteBuffer(string: "b"))
                source.finish()
                #expect(try await slow.status.code == 200)
            }
        }
    }

    @Test("One user starts eight uploads at an upstream with eight simultaneous calls → two go on, and six get 429")
    func uploads() async throws {
        try await ScriptedUpstream.run(answeringOK) { upstream in
            try await RelayFixture.run(at: upstream.url, maximumConcurrent: 8) { (fixture) async throws in
                let (stream, source) = AsyncStream<Never>.makeStream()
                try await withThrowingTaskGroup(of: Int.self) { (group) async throws in
                    for session in 0..<8 {
                        group.addTask {
                            let body = UpstreamRequest.Body.stream(
                                UpstreamRequest.Stream(Held(until: stream)), length: nil)
                            let own = fixture.of("ana", UInt8(session % 2))
                            do { return try await own.call(.post, "/x", body: body).status.code } catch {
                                return (error as? BrokerProblem)?.code == .rateLimited ? 429 : 0
                            }
                        }
                    }
                    for _ in 0..<6 { #expect(try await group.next() == 429) }
                    #expect(fixture.relay.underWay(UpstreamName(unchecked: "api")) == 2)
                    #expect(try await fixture.of("ben", 7).call(.get, "/x").status.code == 200)
                    source.finish()
                    for _ in 0..<2 { #expect(try await group.next() == 200) }
                }
            }
        }
    }
}

/// A body of one byte, whose end comes when the test ends the stream.
private struct Held: AsyncSequence, Sendable {
    let stream: AsyncStream<Never>

    init(until stream: AsyncStream<Never>) { self.stream = stream }

    struct AsyncIterator: AsyncIteratorProtocol {
        let stream: AsyncStream<Never>
        var isFirst = true

        mutating func next() async throws -> ByteBuffer? {
            defer { isFirst = false }
            if isFirst { return ByteBuffer(string: "x") }
            for await _ in stream {}
            return nil
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: stream) }
}
