import Synchronization
import Testing

/// Counts the cases of a suite as they run, and prints their number.
final class CountingCases: SuiteTrait, TestTrait, TestScoping {
    private let name: String
    private let count = Atomic(0)

    init(_ name: String) { self.name = name }

    var isRecursive: Bool { true }

    func scopeProvider(for test: Test, testCase: Test.Case?) -> CountingCases? { self }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        if testCase != nil { count.add(1, ordering: .relaxed) }
        try await function()
        if test.isSuite { print("\(name): \(count.load(ordering: .relaxed))") }
    }
}

extension Trait where Self == CountingCases {
    static func countingCases(_ name: String) -> Self { CountingCases(name) }
}
