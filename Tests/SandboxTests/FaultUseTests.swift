import Foundation
import Testing

@testable import Sandbox

@Suite("The sandbox's faults", .timeLimit(.minutes(2)))
struct FaultUseTests {
    @Test("Each fault of the sandbox → used by a test of the broker, and described in the documents")
    func used() throws {
        let root = #filePath.components(separatedBy: "/Tests/SandboxTests/")[0]
        var tests: Set<Substring> = []
        let files = try #require(FileManager.default.enumerator(atPath: root + "/Tests"))
        for case let name as String in files where !name.hasPrefix("SandboxTests/") {
            guard [".swift", ".sh", ".py", ".bash"].contains(where: name.hasSuffix) else { continue }
            tests.formUnion(Self.words(try String(contentsOfFile: root + "/Tests/" + name, encoding: .utf8)))
        }
        let page = Self.words(try String(contentsOfFile: root + "/docs/apps/sandbox.md", encoding: .utf8))
        let untested = FaultName.all.filter { !tests.contains(Substring($0)) }
        #expect(untested.isEmpty)
        // The page docs/apps/sandbox.md describes the faults `invalid-sig-…` and `signing-key-rotation-just…` as two groups. It
        // does not name each of them.
        let unsaid = FaultName.all.filter { fault in
            !page.contains(Substring(fault)) && !fault.hasPrefix("invalid-sig-")
                && !fault.hasPrefix("signing-key-rotation-just")
        }
        #expect(unsaid.isEmpty)
    }

    /// The words of a text that may be the name of a fault.
    private static func words(_ text: String) -> Set<Substring> {
        Set(text.split { !("a"..."z").contains($0) && !("0"..."9").contains($0) && $0 != "-" })
    }
}
