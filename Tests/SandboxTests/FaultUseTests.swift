import Foundation
import Testing

@testable import Sandbox

@Suite("The sandbox's faults", .timeLimit(.minutes(2)))
struct FaultUseTests {
    @Test("Each fault that it offers stands in a test of the product, and in its documents")
    func used() throws {
        let root = #filePath.components(separatedBy: "/Tests/SandboxTests/")[0]
        var tests = ""
        let files = try #require(FileManager.default.enumerator(atPath: root + "/Tests"))
        for case let name as String in files where !name.hasPrefix("SandboxTests/") {
            guard [".swift", ".sh", ".py", ".bash"].contains(where: name.hasSuffix) else { continue }
            tests += try String(contentsOfFile: root + "/Tests/" + name, encoding: .utf8)
        }
        let page = try String(contentsOfFile: root + "/docs/sandbox.md", encoding: .utf8)
        for fault in FaultName.all {
            // The name as a whole word.
            let words = try Regex("(^|[^a-z0-9-])" + fault + "($|[^a-z0-9-])")
            #expect(tests.firstMatch(of: words) != nil, "\(fault) stands in no test")
            let isShort = fault.hasPrefix("invalid-sig-") || fault.hasPrefix("signing-key-rotation-just")
            #expect(isShort || page.firstMatch(of: words) != nil, "\(fault) is not in docs/sandbox.md")
        }
    }
}
