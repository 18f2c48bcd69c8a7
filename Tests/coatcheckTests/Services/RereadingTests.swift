import BrokerTestSupport
import Foundation
import Synchronization
import Testing

@testable import coatcheck

@Suite("Files that block do not delay a reload or a stop", .timeLimit(.minutes(1)))
struct RereadingTests {
    /// Readings of a file that return when the test allows it, and the results that the reader has used.
    private final class Readings: Sendable {
        private let gates = Mutex<[Int: DispatchSemaphore]>([:])
        private let list = Mutex<[Int]>([])
        private let late = Mutex(0)

        /// A reading that returns after `release(number)`.
        func hanging(_ number: Int) -> @Sendable () -> Int {
            let gate = DispatchSemaphore(value: 0)
            gates.withLock { $0[number] = gate }
            return {
                gate.wait()
                return number
            }
        }

        func release(_ number: Int) { gates.withLock { $0[number] }?.signal() }
        func take(_ number: Int) { list.withLock { $0.append(number) } }
        func wasLate() { late.withLock { $0 += 1 } }
        var taken: [Int] { list.withLock { $0 } }
        var lateOnes: Int { late.withLock { $0 } }

        /// Waits until a condition holds.
        func wait(until isTrue: @Sendable (Readings) -> Bool) async throws {
            try await eventually("the readings fulfil the test's condition") { isTrue(self) }
        }

        /// Makes a reader that waits for each reading for at most `patience`.
        ///
        /// With nil, the reader waits for an hour, which is longer than any test.
        func reader(patience: Duration?) -> Rereading<Int> {
            Rereading(
                sleep: { _ in try await Task.sleep(for: patience ?? .seconds(3600)) }, isLate: { [self] in wasLate() },
                take: { [self] in take($0) })
        }
    }

    @Test(
        "A reading of a file hangs until a newer reading is done → reported once as late, and the old reading's result is dropped"
    )
    func hanging() async throws {
        let readings = Readings()
        let reader = readings.reader(patience: .milliseconds(50))
        #expect(await reader.run(readings.hanging(1)))
        #expect(readings.lateOnes == 1 && readings.taken.isEmpty && reader.isReading)
        #expect(await reader.run { 2 })
        try await readings.wait { $0.taken == [2] }
        readings.release(1)
        try await readings.wait { _ in !reader.isReading }
        #expect(readings.taken == [2])
    }

    @Test("Two readings of a file hang, and finish late, the older one first → both results are used")
    func late() async throws {
        let readings = Readings()
        let reader = readings.reader(patience: .milliseconds(50))
        _ = await reader.run(readings.hanging(1))
        _ = await reader.run(readings.hanging(2))
        readings.release(1)
        try await readings.wait { $0.taken == [1] }
        readings.release(2)
        try await readings.wait { $0.taken == [1, 2] }
    }

    @Test("As many readings of a file hang as are allowed → no further reading begins until one of them has returned")
    func bounded() async throws {
        let readings = Readings()
        let reader = readings.reader(patience: .milliseconds(20))
        for number in 0..<Rereading<Int>.maximum { #expect(await reader.run(readings.hanging(number))) }
        let none = await reader.run { 99 }
        #expect(!none)
        readings.release(0)
        try await readings.wait { $0.taken == [0] }
        #expect(await reader.run { 100 })
        for number in 1..<Rereading<Int>.maximum { readings.release(number) }
        try await readings.wait { $0.taken.contains(100) && !reader.isReading }
    }

    @Test(
        "The broker stops while a file is being read → the stop does not wait, and the result of the reading is dropped"
    )
    func stop() async throws {
        let readings = Readings()
        let reader = readings.reader(patience: nil)
        let read = readings.hanging(1)
        let run = Task { await reader.run(read) }
        try await readings.wait { _ in reader.isReading }
        run.cancel()
        #expect(await run.value)
        reader.stop()
        readings.release(1)
        try await readings.wait { _ in !reader.isReading }
        #expect(readings.taken.isEmpty && readings.lateOnes == 0)
        #expect(await reader.run { 2 } == false)
    }

    @Test("A signal's action waits for the reading of a file, and the service ends → the action ends at once")
    func service() async throws {
        let readings = Readings()
        let reader = readings.reader(patience: nil)
        let read = readings.hanging(1)
        let (signals, signal) = AsyncStream.makeStream(of: Void.self)
        let service = Task { await ReloadOnHangup.run(signals) { _ = await reader.run(read) } }
        signal.yield()
        try await readings.wait { _ in reader.isReading }
        service.cancel()
        await service.value
        readings.release(1)
    }

    @Test("Regular files, and links to them → read; any file that could block its reader → refused")
    func kinds() throws {
        let folder = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: folder) }
        let file = folder + "/file"
        try Data("text".utf8).write(to: URL(fileURLWithPath: file))
        try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: "file")
        #expect(mkfifo(folder + "/pipe", 0o600) == 0)
        try FileManager.default.createSymbolicLink(atPath: folder + "/piped", withDestinationPath: "pipe")
        func fault(_ path: String, limit: Int = 10) -> FileFault? {
            do throws(FileFault) {
                _ = try BoundedFile.load(path, limit: limit)
                return nil
            } catch { return error }
        }
        #expect(fault(file) == nil && fault(folder + "/link") == nil)
        #expect(fault(file, limit: 3) == .tooLarge(limit: 3))
        for path in [folder + "/pipe", folder + "/piped", "/dev/zero", "/dev/null", "/dev/tty"] {
            let found = fault(path)
            #expect(
                found == .notRegular || (path == "/dev/tty" && found != nil), "\(path): \(String(describing: found))")
        }
        #expect(fault(folder) == .folder)
        #expect(fault(folder + "/gone") == .missing)
        // A shell may pass the file as a pipe, which is a descriptor of this process.
        var ends: [Int32] = [0, 0]
        #expect(pipe(&ends) == 0)
        #expect(write(ends[1], "config", 6) == 6)
        close(ends[1])
        #expect(BoundedFile.read("/dev/fd/\(ends[0])", limit: 10) == Array("config".utf8))
        close(ends[0])
    }
}
