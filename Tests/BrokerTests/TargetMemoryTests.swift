import Testing

@testable import Broker

/// The refusals and uses of access tokens for other APIs that a process remembers, and the time that it remembers them.
@Suite("Remembered refusals and uses of tokens for other APIs", .timeLimit(.minutes(1))) struct TargetMemoryTests {
    private let memory = TargetMemory()
    private let place = TargetMemory.Place(
        provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"),
        target: TokenTarget(audience: "a"))

    private func digest(_ number: Int) throws -> Digest {
        let bytes = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
        return try #require(Digest(bytes + Array(repeating: 0, count: 28)))
    }

    @Test("A target is refused in one session → this session may request it again after exactly one minute")
    func refused() throws {
        let (key, session) = (try digest(1), try digest(2))
        memory.refused(key, of: session, place, ofClient: false, at: .seconds(10))
        #expect(memory.refusal(key, place, at: .milliseconds(69_999)) == .refused)
        #expect(try memory.refusal(digest(3), place, at: .seconds(10)) == nil)
        #expect(memory.refusal(key, place, at: .seconds(70)) == nil)
    }

    @Test(
        "A target is refused for the whole client → the client's other sessions may request the target again after five seconds"
    )
    func refusedForAll() throws {
        memory.refused(try digest(1), of: try digest(2), place, ofClient: true, at: .seconds(10))
        #expect(try memory.refusal(digest(3), place, at: .milliseconds(14_999)) == .refused)
        #expect(try memory.refusal(digest(3), place, at: .seconds(15)) == nil)
    }

    @Test(
        "An unusable answer begins a pause for a target → refusals state its rest; a second, shorter pause does not change it"
    )
    func rests() throws {
        let key = try digest(1)
        memory.rests(key, for: .seconds(30), at: .seconds(10))
        #expect(memory.refusal(key, place, at: .seconds(39)) == .rests(for: .seconds(1)))
        #expect(memory.refusal(key, place, at: .seconds(40)) == nil)
        // If a longer pause is running, a shorter pause leaves its end unchanged.
        memory.rests(key, for: .seconds(30), at: .seconds(50))
        memory.rests(key, for: .seconds(2), at: .seconds(51))
        #expect(memory.refusal(key, place, at: .seconds(79)) == .rests(for: .seconds(1)))
    }

    @Test("The memory is full of pauses, and each is looked up after its end → there is room for new pauses")
    func restsAreOver() throws {
        for number in 1..<20_000 { memory.rests(try digest(number), for: .seconds(2), at: .zero) }
        for number in 1..<20_000 { #expect(try memory.refusal(digest(number), place, at: .seconds(2)) == nil) }
        for number in 20_000...20_001 { memory.rests(try digest(number), for: .seconds(30), at: .seconds(2)) }
        #expect(try memory.refusal(digest(20_000), place, at: .seconds(3)) == .rests(for: .seconds(29)))
    }

    @Test(
        "The use of a target's token is written to the store → the next use is written a minute later at the earliest")
    func notes() throws {
        let key = try digest(1)
        #expect(memory.notes(key, at: .seconds(10)))
        #expect(!memory.notes(key, at: .milliseconds(69_999)))
        #expect(memory.notes(key, at: .seconds(70)))
        #expect(!memory.notes(key, at: .seconds(71)))
    }

    @Test(
        "20,000 uses are remembered, and one more is noted → the earlier uses are forgotten, so that the memory is bounded"
    )
    func isBounded() throws {
        for number in 0..<20_000 { #expect(try memory.notes(digest(number), at: .zero)) }
        #expect(try !memory.notes(digest(0), at: .seconds(1)))
        #expect(try memory.notes(digest(20_000), at: .seconds(1)))
        #expect(try memory.notes(digest(0), at: .seconds(1)))
    }

    @Test(
        "A target's parameters → one `resource` for each value, one `audience`, one `scope`; empty values are left out")
    func parameters() {
        func sent(_ target: TokenTarget) -> [String] { target.parameters.map { "\($0.name)=\($0.value)" } }
        #expect(
            sent(TokenTarget(resources: ["https://a", "https://b"], audience: "c", scope: ["read", "write"]))
                == ["resource=https://a", "resource=https://b", "audience=c", "scope=read write"])
        #expect(sent(TokenTarget(audience: "c")) == ["audience=c"])
        #expect(sent(TokenTarget(scope: ["read"])) == ["scope=read"])
    }
}
