import Broker
import Foundation
import Testing

@testable import coatcheck

/// The return of the process's freed memory to the system.
@Suite(.timeLimit(.minutes(2))) struct FreedMemoryTests {
    @Test(
        "A process frees memory between blocks that stay in use → the freed memory is returned to the system")
    func givenBack() async throws {
        // One block in 64 stays allocated. So the last page of each heap stays in use, too.
        let size = 128 << 20, block = 1024, stays = 64
        var blocks = (0..<size / block).map { _ in
            let block = UnsafeMutableRawPointer.allocate(byteCount: block, alignment: 16)
            block.storeBytes(of: 1, as: UInt8.self)
            return block
        }
        let full = try resident()
        for index in blocks.indices where index % stays != 0 { blocks[index].deallocate() }
        blocks = blocks.indices.filter { $0 % stays == 0 }.map { blocks[$0] }
        defer { for block in blocks { block.deallocate() } }
        #expect(try full - resident() < size / 2, "this allocator already returns freed memory to the system")

        let memory = FreedMemory()
        memory.look(at: SessionCache(), .zero)
        var tries = 0
        while try full - resident() < size / 2, tries < 3000 {
            tries += 1
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try full - resident() >= size / 2)
    }

    private static func figures(unused: Int, used: Int, released: Int = 0) -> FreedMemoryRule.Figures {
        FreedMemoryRule.Figures(unused: unused << 20, used: used << 20, released: released)
    }

    @Test(
        "An attempt to release memory had little effect, and ten seconds later less memory is in use → another attempt is made"
    )
    func leftBehind() {
        var rule = FreedMemoryRule(atRest: nil)
        rule.tried(leaving: Self.figures(unused: 4, used: 6), at: .zero)
        // While request bodies arrive, each page has a block in use, so an attempt returns little memory.
        #expect(rule.isWorthIt(Self.figures(unused: 290, used: 26), at: .seconds(10)))
        rule.tried(leaving: Self.figures(unused: 275, used: 26), at: .seconds(10))
        #expect(!rule.isWorthIt(Self.figures(unused: 277, used: 26), at: .seconds(20)))
        // Most request bodies have been freed since. The unused memory has grown only a little, but it now has whole pages,
        // which can be returned.
        #expect(!rule.mayTry(at: .seconds(19)))
        #expect(rule.mayTry(at: .seconds(20)))
        #expect(rule.isWorthIt(Self.figures(unused: 282, used: 20), at: .seconds(20)))
        #expect(!rule.isWorthIt(Self.figures(unused: 282, used: 26), at: .seconds(20)))
        #expect(rule.isWorthIt(Self.figures(unused: 288, used: 26), at: .seconds(20)))
        rule.tried(leaving: Self.figures(unused: 5, used: 12), at: .seconds(20))
        for seconds in stride(from: 30, to: 600, by: 10) {
            #expect(!rule.isWorthIt(Self.figures(unused: 9, used: 11), at: .seconds(seconds)))
        }
    }

    @Test(
        "A first attempt to release memory was made under load, and then the load ends → another attempt is made",
        arguments: [true, false]
    )
    func triedUnderLoad(beganAtRest: Bool) {
        var rule = FreedMemoryRule(atRest: beganAtRest ? Self.figures(unused: 3, used: 6) : nil)
        rule.note(Self.figures(unused: 40, used: 26))
        #expect(rule.isWorthIt(Self.figures(unused: 40, used: 26), at: .seconds(5)))
        rule.tried(leaving: Self.figures(unused: 36, used: 26), at: .seconds(5))
        rule.note(Self.figures(unused: 37, used: 26))
        #expect(!rule.isWorthIt(Self.figures(unused: 37, used: 26), at: .seconds(15)))
        // If the rule knows how much memory is used at rest, a smaller decrease of the used memory is enough for another
        // attempt.
        let rest = Self.figures(unused: 38, used: beganAtRest ? 24 : 17)
        rule.note(rest)
        #expect(rule.isWorthIt(rest, at: .seconds(15)))
    }

    @Test(
        "An attempt to release memory under load had little effect, and memory use falls from 9 to 4 MiB → another attempt"
    )
    func beganUnderLoad() {
        var rule = FreedMemoryRule(atRest: Self.figures(unused: 4, used: 3))
        rule.note(Self.figures(unused: 52, used: 9))
        #expect(rule.isWorthIt(Self.figures(unused: 52, used: 9), at: .seconds(5)))
        rule.tried(leaving: Self.figures(unused: 50, used: 9), at: .seconds(5))
        rule.note(Self.figures(unused: 55, used: 4))
        #expect(rule.isWorthIt(Self.figures(unused: 55, used: 4), at: .seconds(15)))
    }

    @Test("The process starts → its memory use is measured before the first check of freed memory")
    func atRest() { #expect(FreedMemory().atRest != nil) }

    @Test(
        "An attempt released too little memory → the next one after a minute, or after 4,096 cached sessions were released"
    )
    func patience() {
        var rule = FreedMemoryRule(atRest: nil)
        #expect(!rule.isWorthIt(Self.figures(unused: 7, used: 6), at: .zero))
        #expect(rule.isWorthIt(Self.figures(unused: 8, used: 6), at: .zero))
        rule.tried(leaving: Self.figures(unused: 2, used: 6), at: .zero)
        rule.tried(leaving: Self.figures(unused: 40, used: 6), at: .seconds(10))
        #expect(!rule.isWorthIt(Self.figures(unused: 40, used: 6), at: .seconds(69)))
        #expect(rule.isWorthIt(Self.figures(unused: 40, used: 6), at: .seconds(70)))
        #expect(rule.isWorthIt(Self.figures(unused: 40, used: 6, released: 4096), at: .seconds(20)))
        #expect(!rule.isWorthIt(Self.figures(unused: 9, used: 6, released: 4095), at: .seconds(20)))
    }

    private func resident() throws -> Int {
        let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ").dropFirst()
        return (pages.first.flatMap { Int($0) } ?? 0) * Int(getpagesize())
    }
}
