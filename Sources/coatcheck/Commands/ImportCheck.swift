import ArgumentParser
import Broker
import BrokerHTTP
import BrokerStore
import Foundation

/// Makes the import of `coatcheck check --online --import`, with the operator's own tokens.
struct ImportCheck: Sendable {
    private let path: String
    private let bytes: [UInt8]
    private let order: FirstImport.Order
    /// Whether other users may read the file.
    let isOpenToOthers: Bool

    /// The name in the audit record if the command opens the store itself.
    private static let actor = "check"
    /// The time for the broker's answer, which may wait for three calls to the provider.
    private static let patience = Duration.seconds(40)

    /// Reads the file; ends the command if it is unreadable, or if a member is faulty.
    init(reading path: String) throws {
        self.path = path
        do throws(FileFault) { bytes = try BoundedFile.load(path, limit: 65_536) } catch {
            throw ManagementClient.fault("\(path) is unreadable: it \(error)")
        }
        do throws(BrokerProblem) { order = try FirstImportBody.read(bytes) } catch {
            guard case .fields(let faults) = error.payload, !faults.allSatisfy(\.pointer.isEmpty) else {
                throw ManagementClient.fault("\(path) is unusable: it has to be a JSON object")
            }
            throw ManagementClient.fault("\(path) is unusable: " + faults.map(\.words).joined(separator: ", "))
        }
        isOpenToOthers = FileMode.isOpenToOthers(path)
    }

    /// The name of the import in the command's lines.
    var place: String {
        "providers.\(order.provider)" + (order.client.map { " clients.\($0)" } ?? "") + " import"
    }

    /// The line about the file's mode.
    var warning: OnlineCheck.Finding {
        OnlineCheck.Finding(
            place: place, isGood: true, text: "\(path) is a file that others may read; its mode should be 0600",
            isDoubtful: true)
    }

    /// The line for an import that is left out because of another fault.
    var omission: OnlineCheck.Finding { fault("left out, because of the faults above; its tokens are unused") }

    /// Makes the import in the store, or through the management listener of a running broker on SQLite.
    func run(_ configuration: Configuration, _ management: ManagementClient) async throws -> OnlineCheck.Finding {
        if case .sqlite(let database, _) = configuration.store, !FileManager.default.fileExists(atPath: database) {
            return fault("the store is still to be made, and it records the grant; run `coatcheck migrate` first")
        }
        do {
            return try await BrokersUser.running(configuration.store) { _ in finding(try await direct(configuration)) }
        } catch StoreOpenFailure.locked(_) {
            // The broker runs. Its user may be unable to read the file with the caller's admin token.
            guard management.hasToken else {
                return fault(
                    "a running broker has the store; use --token-file with an admin token that has `maintain`, or stop the broker"
                )
            }
            return finding(try await managed(management))
        } catch let code as ExitCode {
            throw code
        } catch let problem as BrokerProblem {
            return fault("failed: \(problem.words)")
        } catch {
            return fault("failed: \(error)")
        }
    }

    private func direct(_ configuration: Configuration) async throws -> FirstImport.Result {
        let store = try await configuration.openForEnding()
        let composition = try await CommandComposition.make(configuration, store)
        let context = composition.running.current.context
        do {
            let result = try await FirstImport(context).run(order, actor: Self.actor)
            // Otherwise, a stopped broker would revoke the new tokens at its next start.
            _ = try? await composition.parts.revocations.with(context).work()
            await CommandComposition.close(composition)
            return result
        } catch {
            await CommandComposition.close(composition)
            throw error
        }
    }

    private func managed(_ management: ManagementClient) async throws -> FirstImport.Result {
        let answer = try await management.call("POST", "/admin/v1/first-imports", body: bytes, within: Self.patience)
        guard let answer, let detail = answer["detail"]?.string else {
            throw StartFailure("the broker's answer has another form; it may be of another version")
        }
        return FirstImport.Result(subject: answer["subject"]?.string, detail: detail)
    }

    private func finding(_ result: FirstImport.Result) -> OnlineCheck.Finding {
        guard let subject = result.subject else { return fault(result.detail) }
        return OnlineCheck.Finding(
            place: place, isGood: true, text: Sessions.printable("\(result.detail); subject \(subject)"))
    }

    private func fault(_ text: String) -> OnlineCheck.Finding {
        OnlineCheck.Finding(place: place, isGood: false, text: Sessions.printable(text))
    }
}
