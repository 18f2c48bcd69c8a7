import Broker
import Foundation
import Synchronization
import Testing

@testable import coatcheck

/// A source with scripted sessions, which records each step.
private final class ScriptedSource: ExportSource {
    struct Stopped: Error {}

    private struct State {
        var live: [SessionHandle]
        var busy: [SessionHandle: Int] = [:]
        /// Sessions whose end is refused one time, because their tokens have changed.
        var changed: Set<SessionHandle> = []
        var versions: [SessionHandle: Int64] = [:]
        var steps: [String] = []
        var stopAt: String?
    }

    private let state: Mutex<State>
    let size: Int

    init(_ handles: [SessionHandle], size: Int = 2) {
        state = Mutex(State(live: handles))
        self.size = size
    }

    var steps: [String] { state.withLock { $0.steps } }
    var live: [SessionHandle] { state.withLock { $0.live } }

    func hold(_ handle: SessionHandle, times: Int) { state.withLock { $0.busy[handle] = times } }
    func change(_ handle: SessionHandle) { state.withLock { _ = $0.changed.insert(handle) } }
    func stop(at step: String) { state.withLock { $0.stopAt = step } }

    private func reach(_ step: String) throws {
        try state.withLock { state in
            state.steps.append(step)
            if state.stopAt == step {
                state.stopAt = nil
                throw Stopped()
            }
        }
    }

    private func claim(_ handles: [SessionHandle]) -> SessionExport.Page {
        state.withLock { state in
            var page = SessionExport.Page()
            for handle in handles where state.live.contains(handle) {
                if let times = state.busy[handle], times > 0 {
                    state.busy[handle] = times - 1
                    page.missed.append(SessionExport.Missed(handle: handle, reason: .busy))
                    continue
                }
                let version = state.versions[handle, default: 1]
                page.lines.append(
                    SessionExport.Line(
                        receipt: SessionExport.Receipt(handle: handle, tokenVersion: version, fence: 1),
                        text: "\(handle.text).\(version)"))
            }
            return page
        }
    }

    func page(after cursor: String?) async throws -> SessionExport.Page {
        let start = cursor.flatMap { Int($0) } ?? 0
        try reach("page \(start)")
        let all = state.withLock { $0.live + [] }
        let rest = Array(all.prefix(size))
        var page = claim(rest)
        // Missed sessions stay in front, so step over them.
        if all.count > size, page.missed.isEmpty || start < 10 { page.nextCursor = String(start + 1) }
        return page
    }

    func page(of handles: [SessionHandle]) async throws -> SessionExport.Page {
        try reach("again \(handles.count)")
        return claim(handles)
    }

    func end(_ receipts: [SessionExport.Receipt]) async throws -> [SessionHandle] {
        try reach("end \(receipts.count)")
        return state.withLock { state in
            var ended: [SessionHandle] = []
            for receipt in receipts {
                if state.changed.remove(receipt.handle) != nil {
                    state.versions[receipt.handle] = 2
                } else {
                    state.live.removeAll { $0 == receipt.handle }
                    ended.append(receipt.handle)
                }
            }
            return ended
        }
    }
}

@Suite("An export's file and its steps", .timeLimit(.minutes(2)))
struct ExportTests {
    private func folder() throws -> String {
        let path = NSTemporaryDirectory() + "coatcheck-" + UUID().uuidString
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        return path
    }

    private func handles(_ count: Int) -> [SessionHandle] {
        (0..<count).map { SessionHandle(random: Array(repeating: UInt8($0), count: 16)) }
    }

    private func lines(_ file: String) throws -> [String] {
        try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").map(String.init)
            .filter { !$0.allSatisfy { $0 == " " } }
    }

    private func run(_ source: ScriptedSource, _ file: inout ExportFile, keeps: Bool = false) async throws
        -> ExportRun.Result
    {
        try await ExportRun(source: source, keeps: keeps, patience: .seconds(20), sleep: { _ in }).run(into: &file)
    }

    @Test("The file or a link with its name exists → refused, and it stays; a missing folder → refused")
    func existing() throws {
        let folder = try folder()
        try "kept".write(toFile: folder + "/file", atomically: false, encoding: .utf8)
        try FileManager.default.createSymbolicLink(atPath: folder + "/link", withDestinationPath: folder + "/nowhere")
        for name in ["/file", "/link", "/none/file"] {
            #expect(throws: ExportFile.Failure.self) { _ = try ExportFile(creating: folder + name) }
        }
        #expect(try String(contentsOfFile: folder + "/file", encoding: .utf8) == "kept")
        #expect(!FileManager.default.fileExists(atPath: folder + "/nowhere"))
    }

    @Test("A new file → has mode 0600; lines are appended and blanked; an empty file is removed")
    func file() throws {
        let path = try folder() + "/file"
        var file = try ExportFile(creating: path)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? NSNumber
        #expect(mode?.intValue == 0o600)
        file.removeIfEmpty()
        #expect(!FileManager.default.fileExists(atPath: path))
        file = try ExportFile(creating: path)
        let places = try file.append(["one", "two"]) + file.append(["three"])
        try file.blank(places[1])
        try file.sync()
        file.removeIfEmpty()
        #expect(try String(contentsOfFile: path, encoding: .utf8) == "one\n   \nthree\n")
    }

    @Test("All sessions → each has one line, and ends after its line is written")
    func whole() async throws {
        let path = try folder() + "/file"
        var file = try ExportFile(creating: path)
        let source = ScriptedSource(handles(5))
        let result = try await run(source, &file)
        #expect(result == ExportRun.Result(lines: 5))
        #expect(try lines(path).count == 5 && source.live.isEmpty)
        #expect(source.steps == ["page 0", "end 2", "page 1", "end 2", "page 2", "end 1"])
    }

    @Test("A session is busy two times → tried again, and exported; always busy → listed, and lives on")
    func busy() async throws {
        let path = try folder() + "/file"
        var file = try ExportFile(creating: path)
        let all = handles(2)
        let source = ScriptedSource(all)
        source.hold(all[0], times: 3)
        source.hold(all[1], times: 1000)
        let result = try await run(source, &file)
        #expect(result.lines == 1)
        #expect(result.missed == [SessionExport.Missed(handle: all[1], reason: .busy)])
        #expect(source.live == [all[1]])
    }

    @Test("A session's tokens change before its end → its line is blanked, and the next line has the new tokens")
    func changed() async throws {
        let path = try folder() + "/file"
        var file = try ExportFile(creating: path)
        let all = handles(2)
        let source = ScriptedSource(all)
        source.change(all[0])
        let result = try await run(source, &file)
        #expect(result == ExportRun.Result(lines: 2))
        #expect(try Set(lines(path)) == ["\(all[0].text).2", "\(all[1].text).1"])
    }

    @Test("The export keeps the sessions → all live on")
    func keeps() async throws {
        let path = try folder() + "/file"
        var file = try ExportFile(creating: path)
        let source = ScriptedSource(handles(2))
        #expect(try await run(source, &file, keeps: true).lines == 2)
        #expect(source.live.count == 2 && !source.steps.contains { $0.hasPrefix("end") })
    }

    @Test(
        "The export stops at any step → a second export completes it: every session is in a file, and each file has a line once",
        arguments: ["page 0", "end 2", "page 1", "page 2", "end 1"])
    func stops(_ step: String) async throws {
        let folder = try folder()
        let all = handles(5)
        let source = ScriptedSource(all)
        source.stop(at: step)
        var first = try ExportFile(creating: folder + "/first")
        await #expect(throws: ScriptedSource.Stopped.self) { _ = try await run(source, &first) }
        var second = try ExportFile(creating: folder + "/second")
        _ = try await run(source, &second)
        let (one, two) = (try lines(folder + "/first"), try lines(folder + "/second"))
        #expect(Set(one + two).count == 5 && source.live.isEmpty)
        #expect(Set(one).count == one.count && Set(two).count == two.count)
    }

    @Test("A file is read line by line → numbers, an empty line, a torn last line, and a line that is too long")
    func reading() throws {
        let path = try folder() + "/file"
        let long = String(repeating: "x", count: 2_000_000)
        try "one\n\n\(long)\nfour\nto".write(toFile: path, atomically: false, encoding: .utf8)
        var file = try ImportFile(path)
        var found: [String] = []
        while let line = try file.next() {
            let text = String(decoding: line.bytes, as: UTF8.self)
            found.append("\(line.number) \(text)\(line.isTorn ? " torn" : "")\(line.isTooLong ? " long" : "")")
        }
        #expect(found == ["1 one", "2 ", "3  long", "4 four", "5 to torn"])
        #expect(throws: FileFault.self) { _ = try ImportFile(path + ".none") }
    }
}
