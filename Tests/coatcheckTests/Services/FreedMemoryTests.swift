import Broker
import Foundation
import Testing

@testable import coatcheck

/// Memory that the process has freed, on its way back to the system.
@Suite(.timeLimit(.minutes(2))) struct FreedMemoryTests {
    @Test("What was freed between what stays is given back, though it is no end of the heap")
    func givenBack() async throws {
        // What stays holds its page, and every heap's end.
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
        #expect(try full - resident() < size / 2, "the system's allocator gives it back by itself")

        let memory = FreedMemory()
        memory.look(at: SessionCache(), .zero)
        var tries = 0
        while try full - resident() < size / 2, tries < 3000 {
            tries += 1
            try await Task.sleep(for: .milliseconds(10))
        }
        #expect(try full - resident() >= size / 2)
    }

    private func resident() throws -> Int {
        let pages = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ").dropFirst()
        return (pages.first.flatMap { Int($0) } ?? 0) * Int(getpagesize())
    }
}
