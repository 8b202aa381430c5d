// Starts coda-lsp for .coda files and hands the settings `coda.*` to it.

const { commands, window, workspace } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

function makeClient() {
  const command = workspace.getConfiguration("coda").get("server.command");
  return new LanguageClient(
    "coda",
    "CODA",
    { command, args: ["--stdio"], transport: TransportKind.stdio },
    {
      documentSelector: [{ language: "coda" }],
      initializationOptions: workspace.getConfiguration("coda"),
      synchronize: {
        configurationSection: "coda",
        fileEvents: workspace.createFileSystemWatcher("**/*.coda"),
      },
    },
  );
}

async function start() {
  client = makeClient();
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    window.showErrorMessage(
      `coda-lsp did not start: ${error.message}. ` +
        'Install it with: pip install "coda-ir[lsp]", or set coda.server.command.',
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.dispose();
}

async function activate(context) {
  context.subscriptions.push(
    commands.registerCommand("coda.restartServer", async () => {
      await stop();
      await start();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
