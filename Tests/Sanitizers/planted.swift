import Dispatch
import Glibc
import Synchronization

/// Faults that a sanitizer has to report, and correct code that only looks faulty: `planted NAME`.
@main
enum Planted {
    nonisolated(unsafe) private static var unguarded = 0
    private static let guarded = Mutex(0)

    static func main() async {
        switch CommandLine.arguments.dropFirst().first {
        case "race": inTwoThreads { for _ in 0..<10_000 { unguarded += 1 } }
        case "race-in-continuation": await twice { await inContinuation() }
        case "race-after-continuation": await twice { await afterContinuation() }
        case "mutex": inTwoThreads { for _ in 0..<50_000 { guarded.withLock { $0 += 1 } } }
        case "continuation": await twice { await continuation() }
        case "object-in-continuation": await twice { await object() }
        case "object-in-checked-continuation": await twice { await objectChecked() }
        case "use-after-free": useAfterFree()
        default: exit(64)
        }
    }

    private final class Work {
        let body: @Sendable () -> Void

        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Runs the body in two threads, because a queue may give both runs to one thread.
    private static func inTwoThreads(_ body: @escaping @Sendable () -> Void) {
        let work = Unmanaged.passRetained(Work(body))
        var threads = [pthread_t](repeating: 0, count: 2)
        for index in threads.indices {
            pthread_create(
                &threads[index], nil,
                { work in
                    if let work { Unmanaged<Work>.fromOpaque(work).takeUnretainedValue().body() }
                    return nil
                }, work.toOpaque())
        }
        for thread in threads { pthread_join(thread, nil) }
        work.release()
    }

    private static func twice(_ work: @escaping @Sendable () async -> Void) async {
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<2 { group.addTask { for _ in 0..<1000 { await work() } } }
        }
    }

    /// A race in the function that hands over the continuation.
    private static func inContinuation() async {
        await withUnsafeContinuation { continuation in
            unguarded += 1
            DispatchQueue.global().async { continuation.resume() }
        }
    }

    private static func continuation() async {
        let value = await withUnsafeContinuation { continuation in
            DispatchQueue.global().async { continuation.resume(returning: guarded.withLock { $0 }) }
        }
        guarded.withLock { $0 = value + 1 }
    }

    private final class Counter: @unchecked Sendable { var value = 1 }

    /// The waiting side reads memory that the resuming side wrote.
    private static func object() async {
        let counter = await withUnsafeContinuation { (continuation: UnsafeContinuation<Counter, Never>) in
            DispatchQueue.global().async { continuation.resume(returning: Counter()) }
        }
        counter.value += 1
    }

    private static func objectChecked() async {
        let counter = await withCheckedContinuation { (continuation: CheckedContinuation<Counter, Never>) in
            DispatchQueue.global().async { continuation.resume(returning: Counter()) }
        }
        counter.value += 1
    }

    /// The waiting side reads memory that the resuming side still writes after it has resumed.
    private static func afterContinuation() async {
        let counter = await withUnsafeContinuation { (continuation: UnsafeContinuation<Counter, Never>) in
            DispatchQueue.global().async {
                let counter = Counter()
                continuation.resume(returning: counter)
                for _ in 0..<1000 { counter.value += 1 }
            }
        }
        counter.value += 1
    }

    private static func useAfterFree() {
        let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: 16)
        bytes.initialize(repeating: 1, count: 16)
        bytes.deallocate()
        print(bytes[3])
    }
}
